package house_test

// root is the repository's folder.
const root = "../.."
