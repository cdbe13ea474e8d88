"""What talks to the service over HTTP, and only so."""
