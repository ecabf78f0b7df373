"""The studio's web server: access control, routes and the page."""
