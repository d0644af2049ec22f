"""What only measures, states or checks a release: nothing here decides one."""
