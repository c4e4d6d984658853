"""What an archive for a reviewer holds: the files that are packed, their description for programs, their digests."""
