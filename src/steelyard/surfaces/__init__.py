"""How people and machines see the answers; six surfaces over ``shared``, none imports another."""
