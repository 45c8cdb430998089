"""What a compiled function tells about itself."""
