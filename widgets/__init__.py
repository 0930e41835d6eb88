"""Widgets that show runs, credit and trajectories in a notebook; they never import torch."""
