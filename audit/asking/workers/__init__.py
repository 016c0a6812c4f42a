"""Runs the model: in this process, in several processes of this machine, or in actors of a Ray cluster.

A run has one writer, the process of the command, which holds its folder and hands out jobs. Each worker opens the model
itself and sends back the answers.
"""
