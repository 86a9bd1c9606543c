"""Players outside JAX: models behind an API, scripts, stored runs, and the learned agents, all by one contract.

The engine, for tasks of any kind: ``contract`` is what a player has to do, ``sitting`` what a task has to say,
``attempts`` what they share, ``calls`` makes one call with its ``retries``, ``episode_log`` keeps what was paid for,
``ledger`` the limits, ``runner`` drives, and ``run`` is a whole run in its folder. A player that acts by more than one
reply a step keeps a ``journal``: those of ``tools``.

Glimpses, one kind: ``memory`` and ``protocol`` say what the player is told, ``parser`` reads its reply, ``world`` steps
the environment, ``glimpse`` makes sittings of it, ``lockstep`` and ``bridge`` drive many at once, ``run_glimpse`` is
the command.
"""
