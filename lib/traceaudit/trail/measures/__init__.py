"""The measures of the TRAIL audit: pure functions from a study to values and findings, one module a subject."""
