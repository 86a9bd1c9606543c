"""Any number of episodes with one policy: rollouts, replay, recurrence, features, devices."""
