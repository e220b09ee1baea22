"""The translation model: a Transformer that reads prefixes, with capsules that know how far each source word is translated."""
