"""Where scenes come from: digits of a data set, and the published lists of episodes, as banks."""
