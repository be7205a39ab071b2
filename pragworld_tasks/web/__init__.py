"""What web pages share: their look, their templates, and the words that an alteration changed."""
