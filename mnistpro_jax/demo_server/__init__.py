"""A model server on the loopback address that plays MNIST-PRO from the pictures of a request alone.

For tests and demonstrations of everything that talks to a paid model. ``sight`` finds what a picture shows,
``conversation`` reads a chat-completions request, ``notes`` is what it writes to itself where a protocol keeps
its thoughts, ``player`` decides, ``faults`` are the ways a server can fail, ``wire`` is the format of replies and
``server`` listens. It is told nothing of the episode beside what a model would be told.
"""
