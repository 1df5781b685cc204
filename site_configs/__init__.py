"""What Plumbline knows of each cluster: its partitions, stacks, peaks, tolerances and references.

Knows no other package of this project; needs PyYAML, jsonschema and archspec, all of which ReFrame brings.
"""

from site_configs.loader import LinkClass, Partition, Site, SiteError, Stack, load_site, name_of_this_site, site_names

__all__ = ['LinkClass', 'Partition', 'Site', 'SiteError', 'Stack', 'load_site', 'name_of_this_site', 'site_names']
