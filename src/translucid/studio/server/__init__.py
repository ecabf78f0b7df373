"""The studio's server: who may ask, what may be asked, and the page itself."""
