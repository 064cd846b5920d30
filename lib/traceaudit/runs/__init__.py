"""Corpora of agent trajectories: schema, normalizers, data card, labels, integrity, and what coverage does."""
