"""A scorer of our own with the pinned one's entry points, for tests of the worker that runs scorers."""

# A scorer of our own with the pinned one's entry points. What its extraction is told to do, it does.
FAKE = """
import glob, os, sys
WHO = "source"

def normalize_category(text, labels):
    return text.upper() if text else labels[0]

def calculate_metrics(gold, reply, labels):
    return {"joint_accuracy": gold["j"], "location_accuracy": 0, "gt_categories": [], "gen_categories": [WHO]}

def extract_json_from_text(text):
    if text == "who":
        return WHO
    if text == "loop":
        while True:
            pass
    if text == "eat":
        kept = []
        while True:
            kept.append(bytearray(1 << 24))
    if text == "die":
        os._exit(3)
    if text == "exit":
        sys.exit(4)
    if text == "noise":
        print("to print")
        os.write(1, b"to the first stream\\n")
        os.write(2, b"to the second stream\\n")
        sys.stdout.write("to stdout")
        sys.stderr.write("to stderr")
    if text == "read":
        return sys.stdin.read()
    if text == "pid":
        return os.getpid()
    if text == "path":
        return [sys.path, os.getcwd(), sorted(sys.modules)]
    if text == "key":
        return {}[0]
    if text == "decode":
        b"\\xff".decode()
    if text == "set":
        return {1}
    if text == "connect":
        import socket
        socket.create_connection(("192.0.2.1", 9), timeout=1)
    return text

def main(gold_folder, reply_folder):
    labels = ["Alpha", "Beta"]
    for file in glob.glob(f"{gold_folder}/*.json"):
        name = os.path.basename(file)
        if not os.path.exists(f"{reply_folder}/{name}"):
            print(f"nothing at {reply_folder}/{name}")
            continue
        try:
            with open(f"{reply_folder}/{name}") as reply:
                if reply.read() == "eat":
                    raise MemoryError
                int("x")
        except Exception as error:
            print(f"oh {file}: {error}")
    row = {"precision": 0, "recall": 0, "f1": 0, "support": 0}
    return {"joint_accuracy": 0, "location_accuracy": 0, "weighted_f1": 0, "score_correlations": {},
            "category_metrics": dict.fromkeys(labels, row)}
"""
