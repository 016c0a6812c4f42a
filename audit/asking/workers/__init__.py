"""Who asks the model: this process, several processes of this machine, or actors of a Ray cluster.

A run has one writer, the process of the command, which holds its folder. What there is to ask, it hands out as jobs;
each worker has opened the model itself, and sends back what was answered.
"""
