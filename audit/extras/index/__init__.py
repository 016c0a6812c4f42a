"""Lay out the published results of a folder's runs on one page. Nothing is computed anew."""
