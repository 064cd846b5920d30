"""The audit of the TRAIL benchmark's scorer: pinned inputs, two engines, predictors, claims and their measures.

TRAIL is a set of annotated agent traces with a scorer; this package asks what a score on it measures.
"""
