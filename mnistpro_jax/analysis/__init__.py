"""From what happened in episodes to numbers, tables and files.

``outcomes`` holds one row of measures an episode; ``records`` reads and writes episodes as JSON lines;
``summary`` reduces outcomes to one dict; ``tables`` prints it; ``intervals`` has the statistics.
"""
