"""Many integers: their words, counts, sentences and statistics."""
