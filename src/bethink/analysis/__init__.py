"""The paper's analyses and some that users ask for; they belong to the `train` extra."""
