"""An agent by name on a list of episodes: in one go, in parts, over hosts."""
