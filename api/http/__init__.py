"""The service over HTTP: thin routes between requests and the store."""
