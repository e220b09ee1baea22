"""What a doubter would measure: the degree under the microscope, paths against gold alignments, and what users feel."""
