"""The seven alterations of any conversation in plain text: `alter`, and the modules behind it."""
