"""How ranks meet and exchange gradients. Nothing here knows of models."""
