"""The one result (model) and a renderer per format."""
