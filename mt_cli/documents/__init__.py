"""Files that come out translated with their structure: each format is a file here that knows nothing of translation."""
