"""Learning a model: a recipe, prepared data, paths, losses, and the loop that puts them together."""
