"""An alert becomes a proposal; decides and never acts. Empty until its issue is worked."""
