"""The data routes between NeMo Gym's kinds of servers, each a process of its own, or several.

========================  =========================================================================================
process                   what it owns
========================  =========================================================================================
resources server          tasks, the sandbox that is lent to the agent, tools on it (MCP), and the verdict
agent server              sessions and activations of one agent; and whole episodes in the legacy flat format
environment server        episodes: seed, activate, close, verify; their budget
========================  =========================================================================================

* :mod:`.contract`: what goes over the wire; :mod:`.tokens`: who may use a lent sandbox;
* :mod:`.serving`: how each is run; :mod:`.workers` and :mod:`.routing`: by several processes;
* :mod:`.peers` and :mod:`.borrowed`: how one calls another.
"""
