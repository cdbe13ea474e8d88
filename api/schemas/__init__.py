"""Requests and answers of the API, one file per noun; the service and its clients share them."""
