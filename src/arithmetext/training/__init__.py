"""A configuration goes in; a run folder (config, metrics, checkpoints, model) comes out."""
