"""The live service: a page for people, a socket for programs, one engine for all of them."""
