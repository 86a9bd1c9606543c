"""Agents outside JAX: models behind an API, scripts, stored runs, and the learned agents, all by one contract.

``contract`` is what an agent has to do; ``memory`` and ``protocol`` say what it is told, ``parser`` reads its reply;
``episode`` is one turn with its attempts, shared by the three drivers ``runner``, ``lockstep`` and ``bridge``; ``log``
keeps what was paid for; ``run`` is the command.
"""
