"""What every room uses: errors for people, files never half-written, pages; imports no room."""
