"""The evaluation matrix: which settings a study means to run, which of them have been run, and running the others.

``published.toml`` declares the tables of arXiv 2608.31022 as data, ``cells`` reads such files, ``status`` holds them
against stored runs, ``filling`` runs what is missing; the command is ``mnistpro_jax.cli.matrix``. The matrix lives in
the package and not in ``experiments/`` because an installed ``mnistpro`` needs it; ``experiments/`` holds matrices of
our own.
"""
