"""What a site writes down itself: its asset list (``inventory``) and the cards it lends outside Kubernetes (``holdings``)."""

from steelyard.sources.site_csv.columns import sniff_site_csv
from steelyard.sources.site_csv.holdings import read_holdings
from steelyard.sources.site_csv.inventory import read_inventory

__all__ = ["read_holdings", "read_inventory", "sniff_site_csv"]
