"""Widgets that show runs, credit and trajectories in a notebook. They read run folders and never import torch."""
