"""adjit"""
