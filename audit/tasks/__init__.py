"""What a model is asked to do: a folder or a module for each task, none of which knows another one."""
