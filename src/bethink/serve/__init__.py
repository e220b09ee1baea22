"""The server: a page for people, a WebSocket and HTTP for programs, one engine for all of them."""
