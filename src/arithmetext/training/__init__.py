"""Training: a configuration goes in, a folder with the trained model and all about it comes out."""
