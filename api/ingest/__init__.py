"""Descriptions of clusters in any format to what the store takes."""
