"""The POMDP: a bank of scenes, shown one episode at a time through a moving window."""
