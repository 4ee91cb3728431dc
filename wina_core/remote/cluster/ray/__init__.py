"""Engines on the nodes of a Ray cluster that runs already.

`driver`, a process of its own, is the only one that imports Ray: it holds an actor for each engine, and passes lines
between their standard streams and the clients here. So Ray's signal handlers, threads and aborts, as where the head
node is lost, stay out of the program, which may use several clusters.
"""
