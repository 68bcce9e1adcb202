"""Files and tables: atomic writing, sealed archives, columns and values of tables, spreadsheets."""
