"""The seven alterations of any conversation that is given as text."""
