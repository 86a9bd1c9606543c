"""Pictures for people and for models: the published picture, animations and contact sheets of episodes."""
