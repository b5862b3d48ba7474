"""dcgm-exporter: what its rows say of cards and GPU instances, whatever release, sharing mode and scrape configuration printed them."""
