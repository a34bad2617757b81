"""A server that translates: for people by its page, for other programs by the APIs that they speak already."""
