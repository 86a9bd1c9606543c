"""Players that look, move and answer by calling tools: ``schema`` says which, ``desk`` what a call does, ``rules`` what
they are told, and ``chat`` asks a model behind chat completions."""
